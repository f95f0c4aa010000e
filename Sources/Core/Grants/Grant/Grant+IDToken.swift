public import OAuth

// The ID token of the login, and of the refreshes after it (OpenID Connect Core §12.2), for callers.
extension Grant {
  /// The ID token that a refresh returned, or why it returned none.
  public struct RefreshedIDToken: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
      case new
      /// The response contained none.
      case absent
      /// The response contained the previous one.
      case unchanged
      /// It could not be verified, for this reason.
      case refused(String)
    }

    public var outcome: Outcome
    public var at: Timestamp

    /// The time before another refresh is made only for an ID token that the last refresh did not return.
    static let life = Duration.seconds(900)
    /// The same if the last refresh returned an ID token that had expired on arrival.
    static let expiredLife = Duration.seconds(60)
  }

  /// The notes on ID tokens of an idle grant. Most grants have none, so these are one reference.
  final class IDTokenNotes: Sendable {
    let last: RefreshedIDToken?
    let reporters: [Reporter]

    init(last: RefreshedIDToken?, reporters: [Reporter]) {
      self.last = last
      self.reporters = reporters
    }
  }

  var idTokenNotes: IDTokenNotes? {
    get {
      // A new ID token needs no note: an unnecessary refresh is the cost of forgetting it.
      let last = lastIDToken?.outcome == .new ? nil : lastIDToken
      return last == nil && idTokenReporters.isEmpty ? nil : IDTokenNotes(last: last, reporters: idTokenReporters)
    }
    set {
      lastIDToken = newValue?.last
      idTokenReporters = newValue?.reporters ?? []
    }
  }

  /// The answer to a caller that wants an ID token.
  public enum IDTokenAnswer: Sendable, Equatable {
    case token(IDToken)
    /// A token of a later generation may come with one.
    case refresh
    /// A refresh would not help.
    case lacking(IDTokenLack)
  }

  /// Why the grant has no ID token for the caller.
  public enum IDTokenLack: Sendable, Equatable {
    /// The account has none, and its last refresh returned none.
    case absent
    /// The last refresh returned no newer one.
    case notRenewed(RefreshedIDToken.Outcome)
    case encrypted
    case unreadable(String)
    /// Fresh ID tokens are valid for this long, which is less than the caller wants.
    case tooShort(lifetime: Duration)
    /// Nothing can renew it.
    case notRenewable
  }

  /// Answers a caller that wants an ID token with this much time left; nil: the policy's minimum.
  ///
  /// - Parameter reporter: the caller, which does not get an ID token that it reported.
  public func idTokenAnswer(
    minimumTTL: Duration?, at now: Timestamp, policy: RefreshPolicy, for reporter: Reporter?
  ) -> IDTokenAnswer {
    // The error of a refresh says why the grant has ended.
    guard !hasEnded else { return .refresh }
    guard let compact = saved.idToken else { return renewal(at: now) ?? .lacking(.absent) }
    let token: IDToken
    do throws(IDTokenError) {
      token = try IDToken.parse(compact)
    } catch {
      return .lacking(error == .encrypted ? .encrypted : .unreadable(error.description))
    }
    let lifetime = token.expiresAt - token.issuedAt
    let floor = policy.floor(minimumTTL, lifetime: lifetime)
    let left = token.expiresAt - now
    let isReported = reporter.map { isIDTokenReported(by: $0) } ?? false
    if left >= max(minimumTTL ?? floor, RefreshPolicy.shortestRest), !isReported { return .token(token) }
    if let minimumTTL, minimumTTL > floor, lastIDToken?.outcome == .new {
      return .lacking(.tooShort(lifetime: lifetime.scaled(by: RefreshPolicy.largestFloorShare)))
    }
    if lastIDToken?.outcome == .new, !isReported, left < RefreshPolicy.shortestRest,
      let at = lastIDToken?.at, now - at < RefreshedIDToken.expiredLife, token.expiresAt - at < floor
    {
      return .lacking(.tooShort(lifetime: max(.zero, token.expiresAt - at)))
    }
    let answer = renewal(at: now) ?? .lacking(.notRenewable)
    // A caller without a wish gets an ID token that cannot be renewed until its end.
    if case .lacking = answer, let last = lastIDTokenResort(minimumTTL: minimumTTL, at: now, for: reporter) {
      return .token(last)
    }
    return answer
  }

  /// The ID token if it is still valid, for a caller that wants no particular time left: after a refresh that failed.
  public func lastIDTokenResort(minimumTTL: Duration?, at now: Timestamp, for reporter: Reporter?) -> IDToken? {
    guard minimumTTL == nil, !hasEnded, let token = saved.idToken.flatMap({ try? IDToken.parse($0) }),
      token.expiresAt - now >= RefreshPolicy.shortestRest, !(reporter.map(isIDTokenReported) ?? false)
    else { return nil }
    return token
  }

  /// Whether the provider has ended the grant: its ID token proves nothing any more, even if it has not expired.
  private var hasEnded: Bool {
    switch saved.standing {
    case .loginRequired(.noRefreshToken, _), .good, .failing, .misconfigured: false
    case .loginRequired: true
    }
  }

  /// Nil: nothing can renew the grant.
  private func renewal(at now: Timestamp) -> IDTokenAnswer? {
    guard saved.isRenewable else { return nil }
    guard let last = lastIDToken, last.at <= now, now - last.at < RefreshedIDToken.life else { return .refresh }
    switch last.outcome {
    case .new: return .refresh
    case .absent where saved.idToken == nil: return .lacking(.absent)
    case .absent, .unchanged, .refused: return .lacking(.notRenewed(last.outcome))
    }
  }

  /// A refresh of the login's own token was answered.
  mutating func recordIDToken(of issued: Issued, at now: Timestamp) {
    let outcome: RefreshedIDToken.Outcome =
      switch (issued.idToken, issued.warning) {
      case (nil, let warning?): .refused(warning)
      case (nil, nil): .absent
      case (let new?, _): new == saved.idToken ? .unchanged : .new
      }
    if outcome == .new { idTokenReporters = [] }
    lastIDToken = RefreshedIDToken(outcome: outcome, at: now)
  }

  /// A caller reported that its audience refused the ID token: it does not get this one again.
  public mutating func idTokenReported(by reporter: Reporter) {
    guard !idTokenReporters.contains(reporter) else { return }
    if idTokenReporters.count >= TokenReport.most { idTokenReporters.removeFirst() }
    idTokenReporters.append(reporter)
  }

  private func isIDTokenReported(by reporter: Reporter) -> Bool { idTokenReporters.contains(reporter) }
}
