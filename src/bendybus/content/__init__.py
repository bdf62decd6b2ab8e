"""The bytes in which messages are kept: what the doors write into stores, and read from them."""
