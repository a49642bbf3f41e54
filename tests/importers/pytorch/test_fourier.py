"""Fourier transforms within a graph, against PyTorch in complex128."""

import functools

import pytest

torch = pytest.importorskip("torch")

from tests.importers.pytorch.families import Family, t  # noqa: E402

FFT = torch.fft
SHORT = {"n_fft": 6, "hop_length": 2, "window": torch.hann_window(6).double()}


def pairs(x):
    """Return complex numbers made of real ones."""
    return torch.complex(x, x.flip(0) * 2 + 1)


CASES = {
    "rfft": lambda x: FFT.rfft(x),
    "rfft of odd length": lambda x: FFT.rfft(x[..., 1:], norm="ortho"),
    "rfft of fewer": lambda x: FFT.rfft(x, n=3, dim=1),
    "rfft of more": lambda x: FFT.rfft(x, n=16),
    "fft of real numbers": lambda x: FFT.fft(x, dim=0),
    "fft": lambda x: FFT.fft(pairs(x), dim=1, norm="forward"),
    "fft of more": lambda x: FFT.fft(pairs(x), n=12),
    "fft of fewer": lambda x: FFT.fft(pairs(x), n=5),
    "ifft": lambda x: FFT.ifft(pairs(x)),
    "irfft": lambda x: FFT.irfft(pairs(x)),
    "irfft of odd length": lambda x: FFT.irfft(pairs(x), n=11, dim=1),
    "rfft2": lambda x: FFT.rfft2(x, norm="ortho"),
    "irfft2": lambda x: FFT.irfft2(pairs(x), s=(4, 18), norm="ortho"),
    "fftn": lambda x: FFT.fftn(pairs(x)),
    "ifft2": lambda x: FFT.ifft2(pairs(x)),
    "hfft": lambda x: FFT.hfft(pairs(x)),
    "fftshift": lambda x: FFT.fftshift(FFT.fft(x)),
    "mixed tokens": lambda x: FFT.fft(FFT.fft(x, dim=-1), dim=-2).real,
    "there and back": lambda x: FFT.irfft(FFT.rfft(x) * 2, n=10),
    "stft": lambda x: torch.stft(x[0], return_complex=True, **SHORT),
    "istft": lambda x: torch.istft(torch.stft(x[0], return_complex=True, **SHORT), **SHORT),
    "lengths and angles": lambda x: (FFT.rfft(x[..., 1:]).abs(), FFT.rfft(x[..., 1:]).angle()),
}


def real(function, x):
    """Return the parts of complex results side by side."""
    made = function(x)
    several = made if isinstance(made, tuple) else (made,)
    return tuple(torch.view_as_real(each) if each.is_complex() else each for each in several)


FOURIER = Family(
    {name: (functools.partial(real, each), t(3, 4, 10)) for name, each in CASES.items()}
)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", FOURIER.cases)
def test_fourier_transforms_are_those_of_torch(name):
    FOURIER.check(name)
