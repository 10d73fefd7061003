"""Read tables: file formats, column types, roles, previews and samples."""
