"""What a method may read, what it answers, and what is private of it."""
