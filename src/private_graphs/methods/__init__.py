"""One module per method: what it trains and which mechanisms it releases."""
