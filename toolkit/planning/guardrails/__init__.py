"""The rules that every plan is judged by."""
