/// How many places of a shared table, or bytes of a shared memory, each holder has. A user has a share for all units
/// together. Root and the broker's own user take nothing from the others.
public struct Shares: Sendable {
  /// A user with several units may have this part of a holder's share more, so that one unit leaves something to the others.
  static let partForOtherUnits = 4

  /// The limits of all others together, of each holder, and of each user.
  public let all: Int
  public let perHolder: Int
  public let perUser: Int
  private var held: [Holder: Int] = [:]
  private var heldByUser: [Holder: Int] = [:]
  private var shared = 0

  public init(all: Int, perHolder: Int) {
    self.all = all
    self.perHolder = perHolder
    perUser = perHolder + max(1, perHolder / Self.partForOtherUnits)
  }

  public enum Shortage: Sendable, Equatable {
    case ofHolder
    /// All units of the holder's user have too much together.
    case ofUser
    case ofAll
  }

  /// Which limit `amount` more would exceed; nil: none.
  public func shortage(of amount: Int = 1, for holder: Holder) -> Shortage? {
    guard held[holder, default: 0] + amount <= perHolder else { return .ofHolder }
    guard count(ofUserOf: holder) + amount <= perUser else { return .ofUser }
    return holder.hasOwnPlaces || shared + amount <= all ? nil : .ofAll
  }

  /// Takes `amount`; returns the limit that this would exceed, nil if it was taken.
  public mutating func acquire(_ amount: Int = 1, for holder: Holder) -> Shortage? {
    if let shortage = shortage(of: amount, for: holder) { return shortage }
    add(amount, for: holder)
    return nil
  }

  /// Takes it even if a limit is exceeded.
  public mutating func add(_ amount: Int, for holder: Holder) {
    held[holder, default: 0] += amount
    heldByUser[holder.user, default: 0] += amount
    if !holder.hasOwnPlaces { shared += amount }
  }

  public mutating func giveBack(_ amount: Int = 1, of holder: Holder) {
    guard let count = held[holder] else { return }
    held[holder] = count > amount ? count - amount : nil
    let left = self.count(ofUserOf: holder) - min(amount, count)
    heldByUser[holder.user] = left > 0 ? left : nil
    if !holder.hasOwnPlaces { shared -= min(amount, count) }
  }

  public var isEmpty: Bool { held.isEmpty }

  public func count(of holder: Holder) -> Int { held[holder, default: 0] }

  /// The total of all units of the holder's user.
  public func count(ofUserOf holder: Holder) -> Int { heldByUser[holder.user, default: 0] }

  /// The total of all holders except root and the broker's own user.
  public var sharedCount: Int { shared }

  /// The holder with the most, of the user with the most; nil: no user, and no unit of the same user, has more than this
  /// one. Root and the broker's own user are left out.
  public func largest(beside holder: Holder) -> Holder? {
    guard let most = Self.most(of: heldByUser), most.value > count(ofUserOf: holder) else {
      return largestUnit(beside: holder)
    }
    return Self.most(of: held.filter { $0.key.user == most.key })?.key
  }

  /// The unit with the most of the same user; nil: none has more.
  public func largestUnit(beside holder: Holder) -> Holder? {
    let most = Self.most(of: held.filter { $0.key.user == holder.user })
    return most.flatMap { $0.value > count(of: holder) ? $0.key : nil }
  }

  private static func most(of held: [Holder: Int]) -> (key: Holder, value: Int)? {
    held.filter { !$0.key.hasOwnPlaces }.max { ($0.value, "\($0.key)") < ($1.value, "\($1.key)") }
  }
}
