import { INSTANCE_STATUSES, LIMITS } from "../requests.ts";
import {
  bad,
  body,
  conflict,
  count,
  engine,
  id,
  impossible,
  label,
  list,
  missing,
  nullable,
  object,
  ok,
  operation,
  page,
  pathId,
  query,
  ref,
  text,
  whole,
} from "./parts.ts";

export const fleetPaths = {
  "/fleets": {
    post: {
      ...operation("Makes a fleet; a pipeline then keeps as many instances as it has nodes", {
        201: ok("The fleet", ref("Fleet")),
        400: bad(),
        409: conflict("There is a fleet of that name (NAME_TAKEN)"),
      }),
      requestBody: body(ref("NewFleet")),
    },
    get: {
      ...operation("Lists fleets, newest first", { 200: ok("A page", list("Fleet")), 400: bad() }),
      parameters: [...page(), query("name", label())],
    },
  },
  "/fleets/{id}": {
    parameters: [pathId()],
    get: operation("One fleet", { 200: ok("The fleet", ref("Fleet")), 400: bad(), 404: missing() }),
    patch: {
      ...operation("Resizes the fleet; waits for its row up to 3 s", {
        200: ok("The fleet", ref("Fleet")),
        400: bad(),
        404: missing(),
        409: conflict("It is being deleted"),
      }),
      requestBody: body(object({ nodes: whole(0, LIMITS.mostNodes) })),
    },
    delete: operation("Asks for the fleet to be deleted, its jobs stopped and its instances terminated", {
      202: ok("The fleet, on its way out; it is gone when GET answers 404", ref("Fleet")),
      400: bad(),
      404: missing(),
    }),
  },
  "/fleets/{id}/instances": {
    parameters: [pathId()],
    get: {
      ...operation("Lists instances of the fleet, newest first", {
        200: ok("A page", list("Instance")),
        400: bad(),
        404: missing(),
      }),
      parameters: page(),
    },
    delete: {
      ...operation("Terminates these instances, all or none; the fleet makes new ones unless it is resized", {
        202: ok("The instances", list("Instance")),
        400: bad(),
        404: missing(),
        409: conflict("Some of them run jobs"),
        422: impossible("Some of them are none of the fleet"),
      }),
      requestBody: body(object({ ids: { type: "array", minItems: 1, maxItems: LIMITS.mostNodes, items: id() } })),
    },
  },
  "/instances/{id}": {
    parameters: [pathId()],
    get: operation("One instance", { 200: ok("The instance", ref("Instance")), 400: bad(), 404: missing() }),
  },
};

export const fleetSchemas = {
  NewFleet: {
    ...object({
      name: label(),
      nodes: whole(0, LIMITS.mostNodes),
      slots: { ...whole(1, LIMITS.mostSlots), default: 1 },
    }),
    required: ["name", "nodes"],
  },
  Fleet: object({
    id: id(),
    name: text(),
    nodes: whole(0, LIMITS.mostNodes),
    slots: whole(1, LIMITS.mostSlots),
    status: { enum: ["active", "deleting"] },
    statusMessage: nullable("string"),
    instances: {
      type: "object",
      properties: Object.fromEntries(INSTANCE_STATUSES.map((status) => [status, count()])),
      description: "How many it has, by status",
    },
    ...engine(),
  }),
  Instance: object({
    id: id(),
    fleetId: id(),
    number: count(),
    status: { enum: INSTANCE_STATUSES },
    busy: count(),
    slots: whole(1, LIMITS.mostSlots),
    providerId: nullable("string"),
    statusMessage: nullable("string"),
    ...engine(),
  }),
};
