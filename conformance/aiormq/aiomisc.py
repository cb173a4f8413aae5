"""What aiormq's tests take of aiomisc, which Debian does not have."""
import asyncio
import functools


def timeout(seconds):
    def with_limit(test):
        @functools.wraps(test)
        async def limited(*arguments, **named):
            return await asyncio.wait_for(test(*arguments, **named), seconds)
        return limited
    return with_limit
