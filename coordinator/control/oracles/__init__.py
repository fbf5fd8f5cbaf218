"""What must never happen to a group, watched for."""
