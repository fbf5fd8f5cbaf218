"""Kafka's wire protocol: messages declared once, two codecs derived from the declarations. No I/O."""
