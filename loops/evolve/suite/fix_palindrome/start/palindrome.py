def palindrome(text):
    letters = [each.lower() for each in text if each.isalnum()]
    left, right = 0, len(letters) - 1
    while left < right:
        if letters[left] != letters[right]:
            return False
        left += 1
        right += 1
    return True
