"""Analyse graphs and loops before they are traced."""
