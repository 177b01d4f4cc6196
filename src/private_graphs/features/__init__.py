"""Feature matrices from the texts of nodes: bag of words, fastText, BERT, Sentence-BERT."""
