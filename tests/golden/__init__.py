"""Data that released versions wrote, and the tests that later versions still read them."""
