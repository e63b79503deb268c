def document(): return {}
def readable(): return {}
