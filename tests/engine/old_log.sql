BEGIN TRANSACTION;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, time REAL NOT NULL,
    kind TEXT NOT NULL, node TEXT, data TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,'20261117-090339-bec1',1.79490622080793261528e+09,'run-started',NULL,'{"supervisor": {"pid": 18710, "began": 108675, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}, "todo": ["source", "slow", "join"]}');
INSERT INTO "events" VALUES(2,'20261117-090339-bec1',1.79490622082196593289e+09,'started','source','{"attempt": 1, "key": "d1f8187bd55ed6650a9232504ec4b04e47d4c524dee1cfdcf5f86a8d02bc6d1c", "process": {"pid": 18737, "began": 108906, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}}');
INSERT INTO "events" VALUES(3,'20261117-090339-bec1',1.79490622087111854551e+09,'finished','source','{"key": "d1f8187bd55ed6650a9232504ec4b04e47d4c524dee1cfdcf5f86a8d02bc6d1c", "seconds": 0.02710006400002385, "outputs": {"report": {"type": "report", "digest": "057db47441308346c929d147e7048f0a57bf453254432cfd6df1ace770ff60f6", "files": {"report.json": {"size": 98, "modified": 1794906220828427258, "sha256": "3573ae8e274e097bad8bf8f86d92a7577f6c473010ec5a9f717b53067c03310a"}}}}}');
INSERT INTO "events" VALUES(4,'20261117-090339-bec1',1.7949062209054358005e+09,'started','slow','{"attempt": 1, "key": "8f7842de505e7d5ce7263679f1512cdb2a7cc4ae5604beab226a395d9c230377", "process": {"pid": 18738, "began": 108913, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}}');
INSERT INTO "events" VALUES(5,'20261117-090339-bec1',1.79490622090698909761e+09,'progress','slow','{"fraction": 7.122221682420715e-07, "text": "sleeping"}');
INSERT INTO "events" VALUES(6,'20261117-090339-bec1',1.7949062211107373238e+09,'progress','slow','{"fraction": 0.17282247444442578, "text": "sleeping"}');
INSERT INTO "events" VALUES(7,'20261117-090339-bec1',1.79490622131463694569e+09,'progress','slow','{"fraction": 0.3997921866664709, "text": "sleeping"}');
INSERT INTO "events" VALUES(8,'20261117-090339-bec1',1.79490622151644468309e+09,'progress','slow','{"fraction": 0.630621319999793, "text": "sleeping"}');
INSERT INTO "events" VALUES(9,'20261117-090339-bec1',1.79490622171685600279e+09,'progress','slow','{"fraction": 0.8539299311108961, "text": "sleeping"}');
INSERT INTO "events" VALUES(10,'20261117-090339-bec1',1.79490622181991362569e+09,'finished','slow','{"key": "8f7842de505e7d5ce7263679f1512cdb2a7cc4ae5604beab226a395d9c230377", "seconds": 0.9224309219998759, "outputs": {"report": {"type": "report", "digest": "65faee05ced3b424e9bd163b55cff719bf96e14ea53459570bb5d7710f5e28f0", "files": {"report.json": {"size": 98, "modified": 1794906221807876019, "sha256": "c733cb47b3e195c8221316478f7d405d280112ada3e1d486888338e4f3813783"}}}}}');
INSERT INTO "events" VALUES(11,'20261117-090339-bec1',1.7949062218312020301e+09,'started','join','{"attempt": 1, "key": "ada0dacffb1d9a82d4671caef1f3b74ec193611d4659deb267aa35cd2711a669", "process": {"pid": 18751, "began": 109008, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}}');
INSERT INTO "events" VALUES(12,'20261117-090339-bec1',1.79490622191110682482e+09,'finished','join','{"key": "ada0dacffb1d9a82d4671caef1f3b74ec193611d4659deb267aa35cd2711a669", "seconds": 0.061547885999971186, "outputs": {"report": {"type": "report", "digest": "5b220c92ef62d0977c8b795e760b52540d7b4e53d9389b05d261ba79f6277874", "files": {"report.json": {"size": 98, "modified": 1794906221855490860, "sha256": "4ec862e9bd6fe2e1bc2b1694d009c565c02ed68913e11e39a7b07e4687bc643d"}}}}}');
INSERT INTO "events" VALUES(13,'20261117-090339-bec1',1.7949062219263370037e+09,'run-finished',NULL,'{"state": "done"}');
INSERT INTO "events" VALUES(14,'20261117-090346-efc1',1.79490622713471245763e+09,'run-started',NULL,'{"supervisor": {"pid": 18810, "began": 109207, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}, "todo": ["source", "slow", "join"]}');
INSERT INTO "events" VALUES(15,'20261117-090346-efc1',1.79490622713654851918e+09,'cached','source','{"key": "d1f8187bd55ed6650a9232504ec4b04e47d4c524dee1cfdcf5f86a8d02bc6d1c", "seconds": 0.02710006400002385, "outputs": {"report": {"type": "report", "digest": "057db47441308346c929d147e7048f0a57bf453254432cfd6df1ace770ff60f6", "files": {"report.json": {"size": 98, "modified": 1794906220828427258, "sha256": "3573ae8e274e097bad8bf8f86d92a7577f6c473010ec5a9f717b53067c03310a"}}}}, "why": "unchanged since run 20261117-090339-bec1"}');
INSERT INTO "events" VALUES(16,'20261117-090346-efc1',1.79490622716267108922e+09,'started','slow','{"attempt": 1, "key": "170ceb54f2c2b4ee1edaec02aff5d856f3bd8c6a61cb25ea9304f297d6ecac17", "process": {"pid": 18904, "began": 109540, "boot": "dc2af6c0-775d-4ec4-a871-68639ec9f617"}}');
INSERT INTO "events" VALUES(17,'20261117-090346-efc1',1.79490622718503093722e+09,'failed','slow','{"error": {"kind": "error", "message": "RuntimeError: the probe was told to fail", "field": null, "traceback": "Traceback (most recent call last):\n  File \"sylva/engine/executors/worker.py\", line 52, in execute\n    store.record(_run(job, store, folder, tell))\n                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"sylva/engine/executors/worker.py\", line 67, in _run\n    values = node_type.run(_context(job, store, folder, tell), given, params)\n             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  File \"sylva/tests/plugin/sylva_test_nodes.py\", line 44, in run_probe\n    ACTIONS[params.action](ctx, params.amount)\n  File \"sylva/tests/plugin/sylva_test_nodes.py\", line 94, in fail\n    raise RuntimeError(\"the probe was told to fail\")\nRuntimeError: the probe was told to fail\n", "digest": null}}');
INSERT INTO "events" VALUES(18,'20261117-090346-efc1',1.79490622720292830466e+09,'skipped','join','{"why": "needs ''slow'', which failed"}');
INSERT INTO "events" VALUES(19,'20261117-090346-efc1',1.79490622720335865018e+09,'run-finished',NULL,'{"state": "failed"}');
INSERT INTO "events" VALUES(20,'20261117-090348-955d',1.79490622827440762516e+09,'run-started',NULL,'{"supervisor": {"pid": 1, "began": 1, "boot": "another"}, "todo": ["forest"]}');
INSERT INTO "events" VALUES(21,'20261117-090348-955d',1.79490622827456903455e+09,'started','forest','{"attempt": 1, "key": "k", "process": {"pid": 1, "began": 1, "boot": "another"}}');
INSERT INTO "events" VALUES(22,'20261117-090348-955d',1.79490622827466177937e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "waiting", null]]}');
INSERT INTO "events" VALUES(23,'20261117-090348-955d',1.79490622827475547786e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "running", null]]}');
INSERT INTO "events" VALUES(24,'20261117-090348-955d',1.79490622827483487129e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "done", 0.5]]}');
INSERT INTO "events" VALUES(25,'20261117-090348-955d',1.79490622827492475512e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "waiting", null]]}');
INSERT INTO "events" VALUES(26,'20261117-090348-955d',1.79490622827500867844e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "running", null]]}');
INSERT INTO "events" VALUES(27,'20261117-090348-955d',1.79490622827508497236e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "done", 0.5]]}');
INSERT INTO "events" VALUES(28,'20261117-090348-955d',1.79490622827516341209e+09,'progress','forest','{"fraction": 0.25, "text": "layer 1"}');
INSERT INTO "events" VALUES(29,'20261117-090348-955d',1.79490622827524089815e+09,'part','forest','{"part": "layer 1", "data": {"score": 0.6}}');
INSERT INTO "events" VALUES(30,'20261117-090348-955d',1.79490622827532434468e+09,'progress','forest','{"fraction": 0.5, "text": "layer 2"}');
INSERT INTO "events" VALUES(31,'20261117-090348-955d',1794906228.2754,'part','forest','{"part": "layer 2", "data": {"score": 0.7}}');
INSERT INTO "events" VALUES(32,'20261117-090348-955d',1.79490622827546787267e+09,'retrying','forest','{"why": "failed: x; tries again in 1 s", "error": {"kind": "error", "message": "x"}}');
INSERT INTO "events" VALUES(33,'20261117-090348-955d',1.79490622827559328077e+09,'started','forest','{"attempt": 2, "key": "k", "process": {"pid": 1, "began": 1, "boot": "another"}}');
INSERT INTO "events" VALUES(34,'20261117-090348-955d',1.79490622827567124371e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(35,'20261117-090348-955d',1.79490622827574539187e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(36,'20261117-090348-955d',1.79490622827581524853e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 1"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(37,'20261117-090348-955d',1.79490622827588605873e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(38,'20261117-090348-955d',1.79490622827595710749e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(39,'20261117-090348-955d',1.79490622827602076534e+09,'jobs','forest','{"jobs": [[["layer 1", "rf", "fold 2"], "kept", 0.5]]}');
INSERT INTO "events" VALUES(40,'20261117-090348-955d',1.79490622827608919138e+09,'progress','forest','{"fraction": 0.25, "text": "layer 1"}');
INSERT INTO "events" VALUES(41,'20261117-090348-955d',1.79490622827615547182e+09,'part','forest','{"part": "layer 1", "data": {"score": 0.6}}');
INSERT INTO "events" VALUES(42,'20261117-090348-955d',1.79490622827622747425e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 1"], "waiting", null]]}');
INSERT INTO "events" VALUES(43,'20261117-090348-955d',1.79490622827629446979e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 1"], "running", null]]}');
INSERT INTO "events" VALUES(44,'20261117-090348-955d',1.7949062282763619423e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 1"], "done", 0.5]]}');
INSERT INTO "events" VALUES(45,'20261117-090348-955d',1.79490622827643418312e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 2"], "waiting", null]]}');
INSERT INTO "events" VALUES(46,'20261117-090348-955d',1.794906228276538372e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 2"], "running", null]]}');
INSERT INTO "events" VALUES(47,'20261117-090348-955d',1.79490622827661585811e+09,'jobs','forest','{"jobs": [[["layer 2", "rf", "fold 2"], "done", 0.5]]}');
INSERT INTO "events" VALUES(48,'20261117-090348-955d',1.79490622827670836449e+09,'progress','forest','{"fraction": 0.5, "text": "layer 2"}');
INSERT INTO "events" VALUES(49,'20261117-090348-955d',1.79490622827677536008e+09,'part','forest','{"part": "layer 2", "data": {"score": 0.7}}');
CREATE TABLE runs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL, request TEXT NOT NULL, created REAL NOT NULL
);
INSERT INTO "runs" VALUES('20261117-090339-bec1','Old log','{
  "format": "sylva-pipeline",
  "version": 1,
  "name": "Old log",
  "nodes": {
    "source": {
      "type": "probe",
      "params": {"value": 1}
    },
    "slow": {
      "type": "probe",
      "params": {"action": "sleep", "amount": 0.9, "value": 2}
    },
    "join": {
      "type": "probe",
      "params": {"value": 4}
    }
  },
  "edges": [
    {"from": "source.report", "to": "slow.reports"},
    {"from": "slow.report", "to": "join.reports"}
  ]
}
','{"to": [], "start": [], "workers": null, "retries": 0, "timeout": null, "memory_limit": null, "store_limit": null, "allow_absolute": true, "executor": null, "pipeline": null, "settings": []}',1.7949062198884906769e+09);
INSERT INTO "runs" VALUES('20261117-090346-efc1','Old failure','{
  "format": "sylva-pipeline",
  "version": 1,
  "name": "Old failure",
  "nodes": {
    "source": {
      "type": "probe",
      "params": {"value": 1}
    },
    "slow": {
      "type": "probe",
      "params": {"action": "raise", "amount": 0.9, "value": 3}
    },
    "join": {
      "type": "probe",
      "params": {"value": 4}
    }
  },
  "edges": [
    {"from": "source.report", "to": "slow.reports"},
    {"from": "slow.report", "to": "join.reports"}
  ]
}
','{"to": [], "start": [], "workers": null, "retries": 0, "timeout": null, "memory_limit": null, "store_limit": null, "allow_absolute": true, "executor": null, "pipeline": null, "settings": []}',1.79490622610992145531e+09);
INSERT INTO "runs" VALUES('20261117-090348-955d','Old forest','{"format": "sylva-pipeline", "version": 1, "name": "Old forest", "nodes": {"forest": {"type": "probe"}}, "edges": []}','{}',1.79490622827336502079e+09);
CREATE INDEX events_of_run ON events (run, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',49);
COMMIT;
PRAGMA user_version = 1;
