"""Classification of private documents: declaration, privacy budget, release, prediction."""
