"""The management API's documents: entities of the model to ATOM and XML, and back. Pure.

Both ends are here. The broker reads requests and writes answers; a client of this broker, or of
any Service Bus, writes requests and reads answers.
"""
