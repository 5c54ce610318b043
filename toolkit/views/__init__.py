"""Model views: folders that an engine serves, linked to an untouched checkpoint, and the store that keeps them."""
