"""Texts of nodes to feature matrices: bag of words, fastText, BERT, Sentence-BERT."""
