"""The experiments: a module for each table or figure, and what several of them share."""
