"""The side-by-side benchmark: this broker and RabbitMQ under the same independent load client."""
