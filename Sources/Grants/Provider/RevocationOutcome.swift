public import OAuth

/// What the provider made of a revocation (RFC 7009 §2.2).
public typealias RevocationOutcome = RevocationRequest.Outcome
