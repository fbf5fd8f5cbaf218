"""The data plane: the topics of clients and their records. A request runs in one step or as a coroutine."""
