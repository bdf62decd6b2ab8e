"""What a feature costs: the broker with it beside the broker without it, in turns."""
