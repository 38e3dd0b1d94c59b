"""The recipe loop: pilots of changed recipes, halved in rounds, and a decision that a person takes (R801-4.17)."""
