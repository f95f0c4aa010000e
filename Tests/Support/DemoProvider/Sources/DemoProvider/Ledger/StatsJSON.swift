extension DemoServer.Stats {
  var json: DemoServer.JSON {
    [
      "requests": .object(requests.mapValues { .int($0) }), "fault_hits": .object(faultHits.mapValues { .int($0) }),
      "faults_set": .int(faultsSet),
      "events": .object(Dictionary(uniqueKeysWithValues: events.map { ($0.key.rawValue, .int($0.value)) })),
      "revocations": .array(revocations.map(\.json)), "live_grants": .int(liveGrants),
      "dead_grants": .int(deadGrants), "refreshes": .int(refreshes), "refreshes_in_flight": .int(refreshesInFlight),
      "refreshes_in_flight_max": .int(refreshesInFlightMax),
      "prefills": .array(prefills), "grants": .array(grants.map(\.json)),
    ]
  }
}

extension DemoServer.Stats.Grant {
  var json: DemoServer.JSON {
    [
      "id": .int(id), "origin": .string(origin.rawValue), "user": .string(user), "client_id": .string(clientID),
      "scope": .string(scopes.joined(separator: " ")), "resources": .array(resources.map { .string($0) }),
      "sid": .string(sessionID), "bound": .bool(isBound), "live": .bool(ended == nil),
      "ended": ended.map { .string($0) } ?? .null, "refreshes": .int(refreshes),
      "refreshes_in_flight_max": .int(refreshesInFlightMax),
    ]
  }
}

extension DemoServer.Stats.Revocation {
  var json: DemoServer.JSON {
    ["kind": .string(kind), "hint": hint.map { .string($0) } ?? .null, "revoked": .bool(revoked)]
  }
}

extension DemoServer.SeenRequest {
  var json: DemoServer.JSON {
    [
      "endpoint": .string(place.rawValue), "method": .string(method), "path": .string(path),
      "headers": .object(headers.mapValues { .string($0) }),
      "parameters": .object(parameters.mapValues { .string($0) }), "names": .array(names.map { .string($0) }),
      "body": .string(body),
    ]
  }
}
