"""Has the compiler compute a huge constant."""

x = (9**9**2,) * 100 and "x" * 10**7
