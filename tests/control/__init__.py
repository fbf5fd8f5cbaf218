"""What people ask a coordinator and change about it."""
