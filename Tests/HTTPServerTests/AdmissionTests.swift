import Callers
import Logging
import NIOCore
import Principals
import Testing

@testable import HTTPServer

/// New connections that are served.
@Suite struct AdmissionTests {
  private let refused = RefusedCallers()
  private let now = NIODeadline.now()

  private func makeAdmission() -> Admission {
    Admission(
      NamedUnits(), HTTPServer.Limits(), ControlGroups(), refused,
      Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  }

  private func caller(_ uid: UInt32, unit: String? = nil) -> Caller {
    Caller(uid: uid, gid: .max, groups: [], pid: 0, unit: unit)
  }

  /// The number of admitted connections.
  private func open(_ count: Int, _ caller: Caller, isIdentified: Bool = true, at admission: inout Admission) -> Int {
    (0..<count).filter { _ in admission.room(for: caller, isIdentified: isIdentified, at: now) != nil }.count
  }

  @Test("callers without a rule do not use the rate of a caller whose unit is not known yet") func rates() {
    var admission = makeAdmission()
    let unnamed = open(1000, caller(60_001), at: &admission)
    let first = admission.room(for: caller(60_001), isIdentified: false, at: now)
    let unidentified = open(1000, caller(60_001), isIdentified: false, at: &admission)
    let others = open(1000, caller(60_002), isIdentified: false, at: &admission)
    // Twice the rate after a pause.
    #expect(unnamed == 200 && first == .unidentified(user: 60_001) && unidentified == 199 && others == 200)
    let named = open(1000, caller(60_001, unit: "a.service"), at: &admission)
    #expect(named == 1000)
  }

  @Test("a refused caller without a rule closes no connection of other callers of its holder") func refusals() {
    var admission = makeAdmission()
    let (unnamed, named) = (caller(60_001), caller(60_001, unit: "a.service"))
    refused.add(Share(holder: unnamed.holder, callerClass: .unnamed), at: now)
    let rooms = [
      admission.room(for: unnamed, isIdentified: true, at: now),
      admission.room(for: unnamed, isIdentified: false, at: now),
      admission.room(for: named, isIdentified: true, at: now),
    ]
    #expect(named.holder == unnamed.holder && rooms == [nil, .unidentified(user: 60_001), .named])
    // It is forgotten after a second.
    let later = admission.room(for: unnamed, isIdentified: true, at: now + .seconds(1))
    #expect(later == .unnamed)
  }

  @Test("a caller with a rule is refused until one of its places is free") func places() {
    var admission = makeAdmission()
    let named = caller(60_001, unit: "a.service")
    let share = Share(holder: named.holder, callerClass: .named)
    refused.add(share, at: now)
    let first = admission.room(for: named, isIdentified: true, at: now)
    refused.remove(share)
    let second = admission.room(for: named, isIdentified: true, at: now)
    #expect(first == nil && second == .named)
  }
}

/// An application whose rules name all units.
private struct NamedUnits: CallerApplication {
  var identifiesCallers: Bool { true }
  func callerClass(of caller: Caller) -> CallerClass { caller.unit == nil ? .unnamed : .named }
  func conversation(with caller: Caller?) -> any HTTPConversation { preconditionFailure("no connection is served") }
}
