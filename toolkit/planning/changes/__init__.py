"""What each verb would change: facts and a request become a plan."""
