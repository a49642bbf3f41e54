"""Convolutions of images and volumes - direct, as products, by Winograd's method - and pooling."""
