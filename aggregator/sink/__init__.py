"""The sink of finals: files of rows that never change, in a folder or an object store."""
