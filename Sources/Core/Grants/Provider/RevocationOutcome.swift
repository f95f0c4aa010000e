public import OAuth

/// The result of a revocation (RFC 7009 §2.2).
public typealias RevocationOutcome = RevocationRequest.Outcome
