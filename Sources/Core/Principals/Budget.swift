/// On whose account the socket counts something.
public struct Share: Hashable, Sendable {
  public let holder: Holder
  public let callerClass: CallerClass

  public init(holder: Holder, callerClass: CallerClass) {
    self.holder = holder
    self.callerClass = callerClass
  }

  /// It has places that other holders cannot use.
  public var hasOwnPlaces: Bool { holder.hasOwnPlaces }
  /// It is of the small share that all callers without a rule have together.
  public var isUnnamed: Bool { callerClass == .unnamed && !hasOwnPlaces }

  /// For people.
  public var text: String { isUnnamed ? "\(holder), which no rule names" : "\(holder)" }
}

/// How much of something callers hold: connections, or bytes. Each holder has a share. All callers that no rule names have
/// one small share together, and each of their holders a part of it.
public struct Budget: Sendable {
  /// What there is too little of.
  public enum Shortage: Sendable, Equatable {
    case ofHolder
    /// All units of the holder's user have too much together.
    case ofUser
    case ofUnnamed
    case ofAll
  }

  public struct Limits: Sendable, Equatable {
    public var all: Int
    public var perHolder: Int
    public var unnamed: Int
    public var perUnnamed: Int

    /// One caller without a rule has this fraction of the part that they have together.
    public static let partOfUnnamed = 4

    /// - Parameters:
    ///   - unnamedShare: the part of `all` that callers without a rule have together.
    ///   - least: what each of them has at least.
    public init(all: Int, perHolder: Int, unnamedShare: Double, least: Int) {
      self.all = all
      self.perHolder = perHolder
      unnamed = min(all, max(least, Int(Double(all) * unnamedShare)))
      perUnnamed = min(perHolder, max(least, unnamed / Self.partOfUnnamed))
    }
  }

  public let limits: Limits
  private var shares: Shares
  private var unnamed: Shares

  public init(_ limits: Limits) {
    self.limits = limits
    shares = Shares(all: limits.all, perHolder: limits.perHolder)
    unnamed = Shares(all: limits.unnamed, perHolder: limits.perUnnamed)
  }

  public func shortage(of amount: Int, for share: Share) -> Shortage? {
    if share.isUnnamed, let shortage = unnamed.shortage(of: amount, for: share.holder) {
      return switch shortage {
      case .ofHolder: .ofHolder
      case .ofUser: .ofUser
      case .ofAll: .ofUnnamed
      }
    }
    return switch shares.shortage(of: amount, for: share.holder) {
    case nil: nil
    case .ofHolder: .ofHolder
    case .ofUser: .ofUser
    case .ofAll: .ofAll
    }
  }

  /// Nil where it was taken, else what there is too little of.
  public mutating func acquire(_ amount: Int, for share: Share) -> Shortage? {
    if let shortage = shortage(of: amount, for: share) { return shortage }
    add(amount, for: share)
    return nil
  }

  /// Takes it even if a limit is exceeded.
  public mutating func add(_ amount: Int, for share: Share) {
    shares.add(amount, for: share.holder)
    if share.isUnnamed { unnamed.add(amount, for: share.holder) }
  }

  public mutating func giveBack(_ amount: Int, of share: Share) {
    shares.giveBack(amount, of: share.holder)
    if share.isUnnamed { unnamed.giveBack(amount, of: share.holder) }
  }

  public func count(of share: Share) -> Int {
    share.isUnnamed ? unnamed.count(of: share.holder) : shares.count(of: share.holder)
  }

  /// What all units of the holder's user may have more.
  public func roomOfUser(of share: Share) -> Int {
    let room = shares.perUser - shares.count(ofUserOf: share.holder)
    return share.isUnnamed ? min(room, unnamed.perUser - unnamed.count(ofUserOf: share.holder)) : room
  }

  /// What the holder may have at most.
  public func limit(of share: Share) -> Int { share.isUnnamed ? limits.perUnnamed : limits.perHolder }

  public var used: Int { shares.sharedCount }
  public var usedByUnnamed: Int { unnamed.sharedCount }

  /// Who holds the most beside this one, among the holders that cause the shortage; nil: no holder has more.
  public func largest(beside share: Share, _ shortage: Shortage) -> Holder? {
    switch shortage {
    case .ofHolder: nil
    case .ofUser: shares.largestUnit(beside: share.holder)
    case .ofUnnamed: unnamed.largest(beside: share.holder)
    case .ofAll: shares.largest(beside: share.holder)
    }
  }

  /// For people, who shall see which limit it is.
  public func text(_ shortage: Shortage, of share: Share, _ what: String) -> String {
    switch shortage {
    case .ofHolder: "\(limit(of: share)) \(what) of \(share.holder)"
    case .ofUser: "\(share.isUnnamed ? unnamed.perUser : shares.perUser) \(what) of \(share.holder.user) in all units"
    case .ofUnnamed: "\(limits.unnamed) \(what) of callers without a rule"
    case .ofAll: "\(limits.all) \(what)"
    }
  }
}
