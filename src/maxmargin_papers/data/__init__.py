"""The data of the papers: loaders of files, and deformed digits."""
