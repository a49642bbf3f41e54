"""Cases of ONNX that are not supported, by the reason."""

_NAMES = {
    "Training.": """
        training_dropout_default training_dropout_default_mask training_dropout
        training_dropout_mask""",
    "Operators without a converter, or that have none as their shape depends on data.": """
        bernoulli bernoulli_expanded bernoulli_double bernoulli_double_expanded bernoulli_seed
        bernoulli_seed_expanded bitcast_float32_to_int32 bitcast_int32_to_float32
        bitcast_float64_to_int64 bitcast_int64_to_float64 bitcast_2d_float32_to_int32
        bitcast_scalar_float32_to_int32 image_decoder_decode_jpeg_rgb
        image_decoder_decode_jpeg_grayscale image_decoder_decode_jpeg_bgr
        image_decoder_decode_jpeg2k_rgb image_decoder_decode_bmp_rgb
        image_decoder_decode_png_rgb image_decoder_decode_tiff_rgb image_decoder_decode_webp_rgb
        image_decoder_decode_pnm_rgb nonmaxsuppression_suppress_by_IOU
        nonmaxsuppression_suppress_by_IOU_and_scores nonmaxsuppression_flipped_coordinates
        nonmaxsuppression_limit_output_size nonmaxsuppression_single_box
        nonmaxsuppression_identical_boxes nonmaxsuppression_center_point_box_format
        nonmaxsuppression_two_classes nonmaxsuppression_two_batches
        nonmaxsuppression_iou_threshold_boundary unique_sorted_without_axis
        unique_not_sorted_without_axis unique_sorted_with_axis unique_sorted_with_axis_3d
        unique_sorted_with_negative_axis unique_length_1""",
    "Results without elements.": """
        causal_conv_with_state_kernel_size_one causal_conv_with_state_kernel_size_one_expanded
        constantofshape_int_shape_zero reduce_sum_empty_set_non_reduced_axis_zero
        reshape_allowzero_reordered shape_start_greater_than_end slice_start_out_of_bounds
        split_zero_size_splits_opset13 split_zero_size_splits_opset18 triu_zero tril_zero""",
    "Scan of opset 8.": "scan_sum",
    "align_corners of a size with a fraction, which is cut off first, as in PyTorch.": """
        resize_downsample_scales_linear_align_corners
        resize_downsample_scales_cubic_align_corners""",
}
UNSUPPORTED = {f"test_{name}" for names in _NAMES.values() for name in names.split()}
