"""What looks wrong, with the rows of silver that show it. One kind to a file; all give the same columns."""
