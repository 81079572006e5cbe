"""The smooth universe: expansion, growth and the linear power spectrum of a flat ΛCDM cosmology."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import hyp2f1

__all__ = ["CRITICAL_DENSITY", "Cosmology", "top_hat", "variance"]

Array = NDArray[np.float64]

CRITICAL_DENSITY = 2.77536627e11  # h² Msun / Mpc³
HUBBLE_DISTANCE = 2997.92458  # c / (100 km/s/Mpc), in Mpc/h
CMB_TEMPERATURE = 2.7255  # K


class Cosmology(NamedTuple):
    """The five cosmological parameters."""

    omega_m: float
    omega_b: float
    h: float
    n_s: float
    sigma_8: float

    def expansion(self, z: Array | float) -> Array | float:
        r"""Evaluate :math:`E(z) = H(z)/H_0 = \sqrt{\Omega_m(1+z)^3 + 1 - \Omega_m}`."""
        return np.sqrt(self.omega_m * (1 + z) ** 3 + 1 - self.omega_m)

    def distance(self, z: float) -> float:
        r"""Evaluate the comoving distance :math:`c\int_0^z dz'/H(z')` in Mpc/h."""
        x, w = np.polynomial.legendre.leggauss(16)
        return float(HUBBLE_DISTANCE * z / 2 * (w / self.expansion(z * (x + 1) / 2)).sum())

    def growth(self, z: float) -> float:
        r"""Evaluate the linear growth :math:`D(z)/D(0)`.

        .. math::
            D(a) = a\;{}_2F_1\Bigl(\frac13, 1; \frac{11}6; -a^3\,\frac{1 - \Omega_m}{\Omega_m}\Bigr)
        """
        ratio = (1 - self.omega_m) / self.omega_m
        a = 1 / (1 + z)
        return float(a * hyp2f1(1 / 3, 1, 11 / 6, -(a**3) * ratio) / hyp2f1(1 / 3, 1, 11 / 6, -ratio))

    def growth_rates(self, z: float) -> tuple[float, float]:
        r"""Evaluate the rates of both orders :math:`f_1 = \Omega_m(z)^{5/9}, f_2 = 2\,\Omega_m(z)^{6/11}`."""
        omega_z = self.omega_m * (1 + z) ** 3 / float(self.expansion(z)) ** 2
        return omega_z ** (5 / 9), 2 * omega_z ** (6 / 11)

    def linear_power(self, z: float) -> tuple[Array, Array]:
        r"""Tabulate :math:`P(k) \propto k^{n_s}\,T^2(k)\,D^2(z)`, scaled to :math:`\sigma_8` at z = 0.

        Returns:
            Wave numbers in h/Mpc and the spectrum in (Mpc/h)³, both (500,).
        """
        k = np.geomspace(1e-4, 30, 500)
        power = k**self.n_s * self.transfer(k) ** 2
        amplitude = self.sigma_8**2 / variance(k, power, np.array([8.0]))
        return k, power * amplitude * self.growth(z) ** 2

    def transfer(self, k: Array) -> Array:
        r"""Evaluate the matter transfer function of Eisenstein & Hu (1998), with baryon wiggles.

        .. math::
            T(k) = \frac{\Omega_b}{\Omega_m} T_b(k) + \frac{\Omega_c}{\Omega_m} T_c(k)

        Numbers of equations in the code are theirs.

        Args:
            k: Wave numbers in h/Mpc.
        """
        theta = CMB_TEMPERATURE / 2.7
        w, wb = self.omega_m * self.h**2, self.omega_b * self.h**2
        f_b = self.omega_b / self.omega_m
        f_c = 1 - f_b
        q = k * self.h  # in 1/Mpc, as in the paper

        # Equality and drag epoch, sound horizon, Silk scale (2-7)
        z_eq, k_eq = 2.5e4 * w / theta**4, 0.0746 * w / theta**2
        b1 = 0.313 * w**-0.419 * (1 + 0.607 * w**0.674)
        b2 = 0.238 * w**0.223
        z_d = 1291 * w**0.251 / (1 + 0.659 * w**0.828) * (1 + b1 * wb**b2)
        r_d, r_eq = 31.5e3 * wb / theta**4 / z_d, 31.5e3 * wb / theta**4 / z_eq
        s = 2 / (3 * k_eq) * np.sqrt(6 / r_eq)
        s *= np.log((np.sqrt(1 + r_d) + np.sqrt(r_d + r_eq)) / (1 + np.sqrt(r_eq)))
        k_silk = 1.6 * wb**0.52 * w**0.73 * (1 + (10.4 * w) ** -0.95)
        ks = q * s

        # Cold dark matter (9-12, 17-20)
        a1 = (46.9 * w) ** 0.670 * (1 + (32.1 * w) ** -0.532)
        a2 = (12.0 * w) ** 0.424 * (1 + (45.0 * w) ** -0.582)
        alpha_c = a1**-f_b * a2 ** -(f_b**3)
        beta_c = 1 / (1 + 0.944 / (1 + (458 * w) ** -0.708) * (f_c ** ((0.395 * w) ** -0.0266) - 1))
        x = q / (13.41 * k_eq)

        def pressureless(alpha: float, beta: float) -> Array:
            c = 14.2 / alpha + 386 / (1 + 69.9 * x**1.08)
            log = np.log(np.e + 1.8 * beta * x)
            return log / (log + c * x**2)

        f = 1 / (1 + (ks / 5.4) ** 4)
        t_c = f * pressureless(1, beta_c) + (1 - f) * pressureless(alpha_c, beta_c)

        # Baryons (13-15, 21-24)
        y = (1 + z_eq) / (1 + z_d)
        root = np.sqrt(1 + y)
        g = y * (-6 * root + (2 + 3 * y) * np.log((root + 1) / (root - 1)))
        alpha_b = 2.07 * k_eq * s * (1 + r_d) ** -0.75 * g
        beta_b = 0.5 + f_b + (3 - 2 * f_b) * np.sqrt((17.2 * w) ** 2 + 1)
        s_shifted = s / (1 + (8.41 * w**0.435 / ks) ** 3) ** (1 / 3)
        t_b = pressureless(1, 1) / (1 + (ks / 5.2) ** 2)
        t_b += alpha_b / (1 + (beta_b / ks) ** 3) * np.exp(-((q / k_silk) ** 1.4))
        return f_b * t_b * np.sinc(q * s_shifted / np.pi) + f_c * t_c


def top_hat(x: Array) -> Array:
    r"""Evaluate the transform :math:`3(\sin x - x\cos x)/x^3` of a sphere, by its series for small x."""
    safe = np.maximum(x, 1e-2)
    return np.where(x < 1e-2, 1 - x**2 / 10, 3 * (np.sin(safe) - safe * np.cos(safe)) / safe**3)


def variance(k: Array, power: Array, radius: Array) -> Array:
    r"""Evaluate :math:`\sigma^2(R) = \frac1{2\pi^2}\int P(k)\,W^2(kR)\,k^3\,d\ln k` for each radius."""
    window = top_hat(k * radius[:, None])
    integral = np.trapezoid(power * window**2 * k**3, np.log(k), axis=1)
    return np.asarray(integral) / (2 * np.pi**2)
