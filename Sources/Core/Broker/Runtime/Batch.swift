import Grants

/// A long computation on the broker's isolation that delays no other work: after a number of steps other work runs.
struct Batch {
  /// Steps of about 5 µs, such as computing an account's due time.
  static let light = 256
  /// Steps of some 20 µs, such as one that describes an account.
  static let medium = 64
  /// Steps of some 50 µs, such as one that opens an account's secrets.
  static let heavy = 16

  private let size: Int
  private var left: Int

  init(of size: Int) {
    self.size = size
    left = size
  }

  /// After each step.
  mutating func next() async {
    left -= 1
    guard left <= 0 else { return }
    left = size
    await yieldActor()
  }
}

/// Visits all accounts: a slice at once, the rest between other work. Accounts removed in the interim are visited too.
@BrokerActor
func sweep(
  _ names: SortedNames, by size: Int = Batch.light, _ visit: @escaping @BrokerActor (AccountName) -> Void
) {
  var page = names.after(nil, most: size)
  for name in page { visit(name) }
  guard names.count > page.count else { return }
  Task {
    while let last = page.last {
      await yieldActor()
      page = names.after(last, most: size)
      for name in page { visit(name) }
    }
  }
}

/// The same of accounts in any order.
@BrokerActor
func sweep(_ names: [AccountName], by size: Int, _ visit: @escaping @BrokerActor (AccountName) -> Void) {
  for name in names.prefix(size) { visit(name) }
  guard names.count > size else { return }
  Task {
    var batch = Batch(of: size)
    await yieldActor()
    for name in names.dropFirst(size) {
      visit(name)
      await batch.next()
    }
  }
}

/// Lets all other work run. Not by `Task.yield()`, which bypasses the hooks of Swift's executor: with them the
/// simulation runs everything in an order that its seed chooses.
func yieldActor() async { await Task {}.value }

/// Does something with each element, so many at a time.
///
/// - Parameter work: false ends it: no further ones are begun.
/// - Returns: whether all were done.
@BrokerActor
func inGroups<Element: Sendable>(
  _ elements: [Element], of size: Int, _ work: @escaping @BrokerActor @Sendable (Element) async -> Bool
) async -> Bool {
  await withTaskGroup(of: Bool.self) { group in
    var areDone = true
    for (index, element) in elements.enumerated() {
      if index >= size, await group.next() == false { areDone = false }
      guard areDone else { break }
      group.addTask { await work(element) }
    }
    for await isDone in group where !isDone { areDone = false }
    return areDone
  }
}
