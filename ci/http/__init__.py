"""HTTP for providers: cache, circuit breaker, rate limit, errors without secrets.

The only room that may import httpx.
"""
