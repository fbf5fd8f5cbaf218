"""From sockets to requests and back: connections, their limits, response queues, handlers by API."""
