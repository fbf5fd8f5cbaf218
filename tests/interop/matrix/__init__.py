"""Every way into a broker, right and wrong, with every stock client."""
