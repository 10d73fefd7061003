"""What Streamlit starts, and its looks; not beside ``ui/pages``, which Streamlit would take for its own kind of pages."""
