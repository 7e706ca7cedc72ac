"""Parts that hubbub uses in place of aiokafka's own."""
