import BrokerAPI
import CredentialHelpers
import PlainText

extension SessionView {
  /// When it was last used, in Unix seconds; nil where the provider does not say so that it can be read.
  var lastUsed: Int64? {
    guard let last else { return nil }
    if let number = Int64(last), number > 0 {
      // No session was last used after the year 5138: such numbers are milliseconds.
      return number < 100_000_000_000 ? number : number / 1000
    }
    return InternetTime.seconds(last)
  }

  fileprivate var state: Cell {
    if current == true { return Cell("this one", .good) }
    return switch online {
    case true?: Cell("online", .good)
    case false?: Cell("offline")
    case nil: Cell("-")
    }
  }
}

extension [SessionView] {
  /// The one that was used the longest time ago, without the person's own; nil where the provider says of none. Of one
  /// that is in use it says nothing.
  func oldest(besides replaced: Set<String>) -> SessionView? {
    let used = filter { $0.current != true && $0.last != nil && !replaced.contains($0.session_id) }
    let times = used.compactMap(\.lastUsed)
    // Dates are written so that they sort as texts.
    guard times.count == used.count else { return used.min { ($0.last ?? "") < ($1.last ?? "") } }
    return zip(times, used).min { $0.0 < $1.0 }?.1
  }

  /// One that is not in use: of those the one that was used the longest time ago, where the provider says when.
  func offline(besides replaced: Set<String>) -> SessionView? {
    let idle = filter { $0.current != true && $0.online == false && !replaced.contains($0.session_id) }
    return idle.oldest(besides: []) ?? idle.first
  }

  /// The session that a wish names: ``PresetAnswers/oldest``, ``PresetAnswers/offline`` or an ID.
  ///
  /// - Returns: its ID, or what is wrong with the wish.
  func chosen(by wish: String, besides replaced: Set<String> = []) -> Result<String, Objection> {
    let found: SessionView?
    switch wish {
    case PresetAnswers.oldest:
      found = oldest(besides: replaced)
      if found == nil {
        return .failure(Objection("The provider does not say which session is the oldest: choose one by its ID."))
      }
    case PresetAnswers.offline:
      found = offline(besides: replaced)
      if found == nil {
        return .failure(Objection("The provider does not report inactive sessions: choose one by its ID."))
      }
    default:
      found = first { $0.session_id == wish }
      if found == nil { return .failure(Objection("No session \(Cell(wish).text) is open.")) }
    }
    return .success(found?.session_id ?? wish)
  }

  /// Why a wish cannot be met, for people.
  struct Objection: Error {
    let text: String
    init(_ text: String) { self.text = text }
  }

  /// `isNumbered`: each row begins with its number, from 1.
  func table(isNumbered: Bool, now: Int64) -> TextTable {
    let rows = enumerated().map { index, session in
      let program = session.client ?? session.user_agent
      let used = session.lastUsed.map { TimeText.ago($0, now: now) } ?? session.last ?? "-"
      return TextTable.Row(
        cells: (isNumbered ? [Cell("\(index + 1)")] : []) + [
          Cell(session.session_id), Cell(program ?? "-"), Cell(session.ip ?? "-"), session.state, Cell(used),
        ], notes: session.client == nil ? [] : session.user_agent.map { [$0] } ?? [])
    }
    let first = isNumbered ? 1 : 0
    return TextTable(
      titles: (isNumbered ? ["NO"] : []) + ["ID", "CLIENT", "IP", "STATE", "LAST USED"],
      // The id is for copying.
      shrinkable: [first + 1, first + 4, first + 2], rows: rows, droppable: 4, keepsValues: true)
  }
}
