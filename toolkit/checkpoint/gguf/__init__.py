"""A GGUF file made into a Hugging Face model folder."""
