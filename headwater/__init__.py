"""Headwater: LangGraph agents whose sessions outlive their context window."""
