"""The studio: a Streamlit app in which pipelines are built, run and looked into."""
