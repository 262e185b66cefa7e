"""Signal processing: Fourier transforms, spectrograms, filters."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from population.layers import dense, images, numbers, placeholder
from population.registry import Built, case, each


@case("stft_b{batch}", each(batch=[1, 8]))
def stft(batch: int) -> Built:
    value = numbers(batch, 8000)
    spectrum = tf.signal.stft(placeholder("x", value), 400, 160, 512)
    return Built({"x": value}, [tf.abs(spectrum)])


@case("log_mel_b{batch}", each(batch=[1, 8]))
def log_mel(batch: int) -> Built:
    value = numbers(batch, 8000)
    spectrum = tf.abs(tf.signal.stft(placeholder("x", value), 400, 160, 512))
    mel = tf.tensordot(spectrum, tf.signal.linear_to_mel_weight_matrix(40, 257, 16000, 80.0), 1)
    logs = tf.math.log(mel + 1e-3)
    return Built(
        {"x": value},
        [tf.signal.mfccs_from_log_mel_spectrograms(logs)[..., :13]],
    )


@case("fft_{length}", each(length=[64, 1000, 65536]), atol=1e-2)
def fft(length: int) -> Built:
    value = numbers(4, length)
    spectrum = tf.signal.rfft(placeholder("x", value))
    return Built({"x": value}, [tf.signal.irfft(spectrum * 0.5, [length])])


@case("fft2d_{size}", each(size=[16, 200]), atol=1e-2)
def fft2d(size: int) -> Built:
    value = images(2, size, size, 1)[..., 0]
    spectrum = tf.signal.fft2d(tf.cast(placeholder("x", value), tf.complex64))
    return Built({"x": value}, [tf.math.real(tf.signal.ifft2d(spectrum)), tf.abs(spectrum)])


@case("spectral_convolution", atol=1e-2)
def spectral_convolution() -> Built:
    value = numbers(8, 512)
    kernel = tf.signal.rfft(tf.constant(numbers(512) / np.float32(22)))
    filtered = tf.signal.irfft(tf.signal.rfft(placeholder("x", value)) * kernel, [512])
    return Built({"x": value}, [dense(filtered, 16, tf.nn.relu)])


@case("dct_{length}", each(length=[32, 512]), atol=1e-2)
def dct(length: int) -> Built:
    value = numbers(16, length)
    return Built({"x": value}, [tf.signal.dct(placeholder("x", value), norm="ortho")])


@case("frame_and_overlap")
def frames() -> Built:
    value = numbers(2, 4000)
    framed = tf.signal.frame(placeholder("x", value), 200, 100)
    windowed = framed * tf.signal.hann_window(200)
    return Built({"x": value}, [tf.signal.overlap_and_add(windowed, 100)])


@case("complex_products")
def complex_products() -> Built:
    value = numbers(64, 64)
    x = placeholder("x", value)
    z = tf.complex(x, tf.transpose(x))
    product = tf.matmul(z, z, adjoint_b=True)
    return Built(
        {"x": value},
        [tf.abs(product), tf.math.angle(z)],
    )
