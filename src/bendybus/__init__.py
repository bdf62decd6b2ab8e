"""Bendybus: a self-hosted message broker that speaks the Azure Service Bus wire."""

__version__ = "0.1.0"
