"""The studio: Sylva in the browser, built with Streamlit."""
